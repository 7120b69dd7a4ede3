// Banner (true until it is dealt with, above the page) and toast (something done, bottom right, 6 s, at most two).
#pragma once

#include <QHash>
#include <QWidget>
#include <functional>

#include "gui/theme/icons.h"
#include "gui/widgets/card.h"
#include "gui/widgets/message_kind.h"

class QVBoxLayout;

namespace mantissa::gui {

/// Icon, one or two lines, buttons; background and edge by kind.
class Banner : public QWidget {
    Q_OBJECT
  public:
    Banner(MessageKind kind, const QString& title, const QString& detail, QWidget* parent = nullptr);
    void addAction(const QString& text, std::function<void()> call);
    /// A button at the right end that removes the banner.
    void setClosable(const QString& name);
    QString title() const;

  Q_SIGNALS:
    void closed();

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    MessageKind kind_;
    TextLabel *title_, *detail_;
    class QHBoxLayout* buttons_;
};

/// Stack of banners above the pages; one per key, the newest text wins.
class BannerArea : public QWidget {
    Q_OBJECT
  public:
    explicit BannerArea(QWidget* parent = nullptr);
    Banner* show(const QString& key, MessageKind kind, const QString& title, const QString& detail = QString());
    void remove(const QString& key);
    bool has(const QString& key) const { return banners_.contains(key); }

  private:
    QVBoxLayout* layout_;
    QHash<QString, Banner*> banners_;
};

/// Overlay of a window. Never takes the focus.
class Toasts : public QObject {
    Q_OBJECT
  public:
    explicit Toasts(QWidget* window);
    void show(const QString& text, const QString& action = QString(), std::function<void()> call = {});

  protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

  private:
    void place();
    QWidget* window_;
    QList<QWidget*> shown_;
};

}  // namespace mantissa::gui
