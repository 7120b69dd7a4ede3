// Files that the program writes for people: whole or not at all, through links, into devices and pipes.
#pragma once

#include <string>

namespace mantissa::experiments {

/// Where a path leads when its last parts are symbolic links, also one whose target is not there yet: a file written
/// there appears where the link points, and the link stays. Throws Io when links lead round in a circle.
std::string followLinks(const std::string& path);

/// Ends with writeFile's own sentence, before anything is computed, where it could not write there: a folder that is
/// missing or closed, a folder in the file's place. Writes nothing; a disk may still fill up until then.
void checkOutput(const std::string& path);

/// A regular file is replaced once the new one is whole (temporary file, rename); a device or a pipe is written into;
/// links are followed. Throws Io: "PATH cannot be written: WHY", for a link "PATH -> TARGET cannot be written: WHY".
void writeFile(const std::string& path, const std::string& text);

}  // namespace mantissa::experiments
