// The one exception type of the project. A code says what kind of failure, the sentence names the thing, the place and the values.
#pragma once

#include <stdexcept>
#include <string>

namespace mantissa {

enum class ErrorCode {
    InvalidConfig,      ///< a spec, value or command line that cannot be used
    InvalidFile,        ///< a corpus, checkpoint, spec or tensor file that cannot be used
    ShapeMismatch,      ///< programmer error: sizes that do not fit together
    DeviceUnavailable,  ///< the device asked for is not there or lacks what is needed
    DeviceFailure,      ///< the device failed while it was in use
    OutOfMemory,        ///< the plan does not fit, or an allocation failed
    NonFinite,          ///< training ended because of NaN or Inf
    Io,                 ///< the operating system refused a file operation
    Database,           ///< the store is unusable, or SQLite reported a failure
};

class Error : public std::runtime_error {
  public:
    Error(ErrorCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
    ErrorCode code() const noexcept { return code_; }

  private:
    ErrorCode code_;
};

}  // namespace mantissa
