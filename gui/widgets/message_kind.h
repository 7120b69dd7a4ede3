// What a banner, strip or toast says about the state of things; icon and colours follow from it.
#pragma once

namespace mantissa::gui {

enum class MessageKind { Info, Ok, Warn, Bad };

}  // namespace mantissa::gui
