// A report page: one HTML file that opens offline, with all that it needs inside.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "report/page/page_data.h"

namespace tandem {

// The files of report/page/web by name, page.html among them, and d3.min.js. For a live page also
// the engine: tandem.js, and tandem.wasm.txt, which is tandem.wasm in gzip and base64.
using PageFiles = std::map<std::string, std::string>;

// Loads them from the data folder. D3 and the engine are looked for beside them, beside the
// program, and in the folder above, the engine in a folder wasm too. Error::Missing if one is in
// none of them.
Result<PageFiles> load_page_files(bool live = false);

// Returns page.html with all files that it names inside (each a line `<link rel="stylesheet"
// href="NAME">` or `<script src="NAME"></script>`), and the data in its element `<script
// type="application/json" id="data">`. Lines `<script type="text/plain" id="ID"
// src="NAME"></script>` are for a live page: without an engine they are left out, and the page's
// Content-Security-Policy allows no engine. REQUIRES: the files that it names.
std::string html_page(const PageFiles& files, std::string_view data);

// Checks what write_html_page needs, before the work that fills the page. An empty path needs
// nothing.
Status check_html_page(const std::string& path, bool live = false);
Status write_html_page(const PageData& data, const std::string& path, bool live = false);

}  // namespace tandem
