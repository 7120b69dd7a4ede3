#include "gui/widgets/run_marks.h"

namespace mantissa::gui {

Glyph stateGlyph(RunState state) {
    switch (state) {
        case RunState::Queued:
            return Glyph::Queued;
        case RunState::Running:
            return Glyph::Running;
        case RunState::Paused:
            return Glyph::Paused;
        case RunState::Finished:
            return Glyph::Finished;
        case RunState::Stopped:
            return Glyph::Stopped;
        case RunState::Interrupted:
            return Glyph::Interrupted;
        case RunState::Failed:
            return Glyph::Failed;
        case RunState::Diverged:
            return Glyph::Diverged;
        case RunState::Refused:
            return Glyph::Refused;
    }
    return Glyph::Info;
}

Token stateToken(RunState state) {
    switch (state) {
        case RunState::Running:
            return Token::Accent;
        case RunState::Finished:
            return Token::Ok;
        case RunState::Paused:
        case RunState::Interrupted:
            return Token::Warn;
        case RunState::Failed:
        case RunState::Refused:
            return Token::Bad;
        case RunState::Diverged:
            return Token::Nonfinite;
        default:
            return Token::Text2;
    }
}

}  // namespace mantissa::gui
