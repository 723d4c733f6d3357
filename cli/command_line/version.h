// The version of this build.
#pragma once

namespace tandem {

// Returns "0.1.0 (commit 1a2b3c4d5e)"; without the commit if Tandem was built from an archive.
const char* version();

}  // namespace tandem
