#include "gui/quit_signals.h"

#include <sys/socket.h>
#include <unistd.h>

#include <QSocketNotifier>
#include <cerrno>

namespace mantissa::gui {
namespace {

// A handler may do next to nothing: it writes a byte that the event loop reads.
int pair[2] = {-1, -1};

void handle(int) {
    const int kept = errno;
    const char byte = 0;
    [[maybe_unused]] const ssize_t written = ::write(pair[0], &byte, 1);
    errno = kept;
}

}  // namespace

QuitSignals::QuitSignals(QObject* parent) : QObject(parent) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return;
    notifier_ = new QSocketNotifier(pair[1], QSocketNotifier::Read, this);
    connect(notifier_, &QSocketNotifier::activated, this, &QuitSignals::read);
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    for (size_t i = 0; i < kCaught.size(); ++i) {
        sigaction(kCaught[i], nullptr, &before_[i]);
        if (before_[i].sa_handler != SIG_IGN) sigaction(kCaught[i], &action, nullptr);
    }
    caught_ = true;
}

QuitSignals::~QuitSignals() {
    restore();
    delete notifier_;
    for (int& end : pair) {
        if (end >= 0) ::close(end);
        end = -1;
    }
}

void QuitSignals::restore() {
    if (!caught_) return;
    for (size_t i = 0; i < kCaught.size(); ++i) sigaction(kCaught[i], &before_[i], nullptr);
    caught_ = false;
}

void QuitSignals::read() {
    char byte = 0;
    while (::read(pair[1], &byte, 1) == 1) Q_EMIT asked(++times_);
    if (times_ >= 2) restore();
}

}  // namespace mantissa::gui
