// A report page: one HTML file that opens offline, with style sheet, scripts and data inside.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "report/page/page_data.h"

namespace tandem {

// The texts of a page's files by name: those of report/page/web, page.html among them, and
// d3.min.js. A live page also has the engine: tandem.js, and tandem.wasm.txt, which is tandem.wasm
// in gzip and base64.
using PageFiles = std::map<std::string, std::string>;

// Loads them from the data folder. D3 and the engine may also be beside the program or in the
// folder above, or in a folder wasm in either. Error::Missing: one is in none of these.
Result<PageFiles> load_page_files(bool live = false);

// Returns page.html with these of its lines filled:
//   <link rel="stylesheet" href="NAME">                        the style sheet NAME
//   <script src="NAME"></script>                               the script NAME
//   <script type="application/json" id="data"></script>        the data
//   <script type="text/plain" id="ID" src="NAME"></script>     NAME in a live page; else left out
// In a live page the Content-Security-Policy allows the engine. REQUIRES: the files that it names.
std::string html_page(const PageFiles& files, std::string_view data);

// Checks that write_html_page() will find its files and can write to `path`, before the work that
// fills the page. An empty path is fine.
Status check_html_page(const std::string& path, bool live = false);
Status write_html_page(const PageData& data, const std::string& path, bool live = false);

}  // namespace tandem
