// Ctrl-C and a polite kill, counted instead of obeyed.
#pragma once

#include <atomic>
#include <csignal>

namespace mantissa::experiments::cli {

/// Counts SIGINT and SIGTERM while it lives; what they did before is restored at the end. One at a time.
class InterruptCounter {
  public:
    InterruptCounter() {
        struct sigaction action {};
        action.sa_handler = [](int) { interrupts().fetch_add(1); };
        sigaction(SIGINT, &action, &oldInt_);
        sigaction(SIGTERM, &action, &oldTerm_);
    }
    ~InterruptCounter() {
        sigaction(SIGINT, &oldInt_, nullptr);
        sigaction(SIGTERM, &oldTerm_, nullptr);
    }
    InterruptCounter(const InterruptCounter&) = delete;
    InterruptCounter& operator=(const InterruptCounter&) = delete;
    int count() const { return interrupts(); }

  private:
    static std::atomic<int>& interrupts() {
        static std::atomic<int> count{0};
        return count;
    }
    struct sigaction oldInt_ {
    }, oldTerm_{};
};

}  // namespace mantissa::experiments::cli
