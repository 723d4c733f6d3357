// Recognises files of tools that Tandem does not read, so that they are refused by name and not
// mistaken for another tool's.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "interop/document/document.h"

namespace tandem {

// Returns the Error that names the tool and says what to give instead; nothing: not one of these.
std::optional<Error> known_but_not_read(const DocumentNode& document, const std::string& path);

}  // namespace tandem
