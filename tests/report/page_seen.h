// A report page as tests see it: its data, and what a script of tests/page tells of it from
// headless Chromium.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "report/page/html_page.h"
#include "tests/sandbox.h"
#include "tests/text.h"

namespace tandem {

using Json = nlohmann::json;

inline std::string data_text(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = page.find("</script>", begin);
  return page.substr(begin + open.size(), end - begin - open.size());
}

inline Json data_of(const std::string& page) { return Json::parse(data_text(page)); }

inline std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// Chromium's command; nothing where it, or D3, is not there: the test is skipped with the reason.
inline std::optional<std::string> browser() {
  if (const auto files = load_page_files(); !files.ok()) {
    WARN("skipped: " << files.error().text());
    return std::nullopt;
  }
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::system(fmt::format("command -v {} >/dev/null 2>&1", name).c_str()) == 0) return name;
  }
  WARN("skipped: no chromium");
  return std::nullopt;
}

// The page with the test's script in it, under another name.
inline void with_script(const Sandbox& box, const char* page, const std::string& script,
                        const char* name) {
  const auto js = [](const std::string& file) {
    return "<script>\n" + contents(TANDEM_SOURCE_DIR "/tests/page/" + file) + "</script>\n";
  };
  std::string text = box.read(page);
  const std::string head = "<meta charset=\"utf-8\">\n";
  text.insert(text.find(head) + head.size(), js("harness.js"));
  text.insert(text.rfind("</body>"), js(script));
  box.file(name, text);
}

// What the script saw on the page, in a window as wide as that or, where windows cannot be so
// narrow, in a frame.
inline Json seen_on(const Sandbox& box, const std::string& chromium, const char* page,
                    const std::string& script, int width = 1280) {
  with_script(box, page, script, "under-test.html");
  const bool framed = width < 600;
  if (framed)
    box.file("frame.html",
             fmt::format("<body><iframe src=\"under-test.html\" style=\"width:{}px;height:800px;"
                         "border:0\"></iframe><script>addEventListener(\"message\",(e)=>{{"
                         "const p=document.createElement(\"pre\");p.id=\"seen\";"
                         "p.textContent=e.data;document.body.append(p);}});</script></body>\n",
                         width));
  const std::string command = fmt::format(
      "timeout 120 {} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
      "--no-first-run --user-data-dir='{}' --window-size={},900 --virtual-time-budget=20000 "
      "--dump-dom 'file://{}' >'{}' 2>'{}'",
      chromium, box.path("profile"), std::max(width, 800),
      box.path(framed ? "frame.html" : "under-test.html"), box.path("dom"), box.path("log"));
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string dom = box.read("dom"), open = "<pre id=\"seen\">";
  const std::size_t begin = dom.rfind(open);
  REQUIRE(begin != std::string::npos);
  std::string text = dom.substr(begin + open.size());
  text = text.substr(0, text.find("</pre>"));
  text = replaced(replaced(replaced(text, "&lt;", "<"), "&gt;", ">"), "&amp;", "&");
  Json seen = Json::parse(text);
  INFO(text);
  CHECK(seen.at("problems") == Json::array());
  CHECK(seen.at("requests") == 0);
  CHECK(seen.at("overflow") <= 0);
  return seen;
}

}  // namespace tandem
