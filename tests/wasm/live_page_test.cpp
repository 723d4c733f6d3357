// Live pages in Chromium with a real clock: what they simulate is what the program prints for the
// command that they show.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/report/page_seen.h"
#include "tests/sandbox.h"
#include "tests/variable.h"
#include "tests/wasm/built_engine.h"

using namespace tandem;

namespace {

// What steps of tests/page saw on a page.
Json browsed(const Sandbox& box, const std::string& chromium, const char* page, const char* steps,
             int width = 1400, const std::string& hash = "") {
  const std::string pages = TANDEM_SOURCE_DIR "/tests/page/";
  const std::string command = fmt::format(
      "timeout 280 node '{0}browse.js' {1} '{2}' '{3}' '{0}{4}' {5} '{6}' >'{7}' 2>'{8}'", pages,
      chromium, box.path("profile"), box.path(page), steps, width, hash, box.path("seen"),
      box.path("log"));
  const int status = std::system(command.c_str());
  INFO(box.read("log"));
  REQUIRE(status == 0);
  const std::string text = box.read("seen");
  INFO(text);
  Json seen = Json::parse(text);
  CHECK(seen.at("problems") == Json::array());
  CHECK(seen.at("overflow") <= 0);
  return seen;
}

// A result without the memory fixes, which a page asks for later.
Json without_fixes(Json result) {
  result.erase("memory_fixes");
  return comparable(result);
}

// What the program prints for a command that the page shows.
Json printed(const Sandbox& box, const std::string& command) {
  REQUIRE(command.starts_with("tandem "));
  const Ran ran = box.tandem(command.substr(7) + " --json");
  INFO(command << '\n' << ran.err);
  REQUIRE(ran.status == 0);
  return without_fixes(Json::parse(ran.out).at(0));
}

// A page of the 76B model, whose four ranks have 10 to 13 lanes of communication each.
void make_long_page(const Sandbox& box) {
  box.file("megatron-sc21.toml", contents(TANDEM_SOURCE_DIR "/scenarios/megatron-sc21.toml"));
  const Ran ran = box.tandem(
      "simulate megatron-sc21.toml --only '76B, Jean-Zay-style' --report live.html --live");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
}

// A page of the 39B model, as the README makes it.
void make_page(const Sandbox& box) {
  box.file("megatron-sc21.toml", contents(TANDEM_SOURCE_DIR "/scenarios/megatron-sc21.toml"));
  const Ran ran = box.tandem(
      "simulate megatron-sc21.toml --only '39B, selene' --set train.flash_attention=true "
      "--report live.html --live");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
}

}  // namespace

TEST_CASE("a live page changes, refuses, undoes, stops and goes on, with the program's digits") {
  const auto chromium = browser();
  if (!chromium || !has_engine()) return;
  const Sandbox box;
  make_page(box);
  CHECK(box.read("live.html").size() < 2'500'000);
  const Json seen = browsed(box, *chromium, "live.html", "live.js");
  CHECK(seen.at("title") == "How long does an iteration take: 39B, selene on 512 GPUs? - Tandem");
  REQUIRE(seen.at("changes").size() == 6);
  for (const Json& change : seen.at("changes")) {
    INFO(change.at("key") << " in " << change.at("ms") << " ms");
    CHECK(Json::diff(printed(box, change.at("command")), without_fixes(change.at("result"))) ==
          Json::array());
    CHECK(change.at("difference").get<std::string>().find(" s at the beginning: ") !=
          std::string::npos);
  }
  // The replicas follow from the GPUs.
  CHECK(seen.at("changes")
            .at(1)
            .at("difference")
            .get<std::string>()
            .find("Also changed: Data (dp) 64.") != std::string::npos);
  const auto hash = seen.at("hash").get<std::string>();
  CHECK(hash.find("parallel.tp=4") != std::string::npos);
  CHECK(seen.at("was") > 3);
  // The copied scenario is the same run.
  box.file("changed.toml", seen.at("scenario"));
  Json copied = printed(box, "tandem simulate changed.toml --engine ideal");
  Json last = without_fixes(seen.at("changes").back().at("result"));
  for (Json* result : {&copied, &last}) {
    for (const char* of_file : {"name", "axes", "points", "warnings", "published_tflops_per_gpu"})
      result->erase(of_file);
  }
  CHECK(Json::diff(copied, last) == Json::array());

  CHECK(seen.at("refused").get<std::string>().find("expected a multiple of micro_batch x dp") !=
        std::string::npos);
  CHECK(seen.at("keptBatch").at(0) == seen.at("keptBatch").at(1));
  CHECK(!seen.at("fixes").empty());
  bool some_refused = false;
  for (const Json& offer : seen.at("offers")) {
    if (offer.at("disabled") != true) continue;
    some_refused = true;
    CHECK(offer.at("text").get<std::string>().find("found") != std::string::npos);
  }
  CHECK(some_refused);
  CHECK(seen.at("zbv").at("changes").at("parallel.vpp") == 2);
  CHECK(seen.at("undone") == true);
  CHECK(seen.at("stopped").get<std::string>().find("stopped") != std::string::npos);
  CHECK(seen.at("dropped") == 1);
  CHECK(seen.at("emptied") == true);  // an empty field takes the setting back
  for (const char* after : {"zbv", "again", "afterBreak"})
    CHECK(Json::diff(printed(box, seen.at(after).at("command")),
                     without_fixes(seen.at(after).at("result"))) == Json::array());
  CHECK(seen.at("reset") == Json{seen.at("same"), ""});
}

TEST_CASE("a live page whose engine runs out of memory says so and goes on") {
  const auto chromium = browser();
  if (!chromium || !has_engine()) return;
  const Sandbox box;
  make_page(box);
  const Json seen = browsed(box, *chromium, "live.html", "live_memory.js");
  INFO(seen);
  CHECK(seen.at("small").at("failure").get<std::string>().find("out of memory") !=
        std::string::npos);
  CHECK(seen.at("small").at("changed") == nullptr);
  CHECK(seen.at("whole").at("failure").get<std::string>().empty());
  CHECK(seen.at("whole").at("changed") == 0.05);
}

TEST_CASE("a live page works in the frame of a notebook") {
  const auto chromium = browser();
  if (!chromium || !has_engine()) return;
  const Sandbox box;
  make_page(box);
  std::string page = std::regex_replace(box.read("live.html"), std::regex("&"), "&amp;");
  page = std::regex_replace(page, std::regex("\""), "&quot;");
  box.file("frame.html", fmt::format("<!DOCTYPE html><meta charset=\"utf-8\">"
                                     "<iframe srcdoc=\"{}\"></iframe>",
                                     page));
  const Json seen = browsed(box, *chromium, "frame.html", "live_frame.js");
  CHECK(seen.at("difference").get<std::string>().find(" % tokens/s") != std::string::npos);
  CHECK(seen.at("failure").get<std::string>().empty());
}

TEST_CASE("a live page opens with the changes of its address, narrow, dark, each field labelled") {
  const auto chromium = browser();
  if (!chromium || !has_engine()) return;
  const Sandbox box;
  make_page(box);
  const Json seen = browsed(box, *chromium, "live.html", "live_layout.js", 390,
                            "#run=39B%2C+selene&parallel.micro_batch=2");
  CHECK(seen.at("changes") == Json{{"parallel.micro_batch", 2}});
  CHECK(without_fixes(seen.at("result")) ==
        printed(box,
                "tandem simulate megatron-sc21.toml --only '39B, selene' --engine ideal --set "
                "parallel.micro_batch=2 --set train.flash_attention=true"));
  CHECK(seen.at("labels").size() >= 18);
  for (const Json& label : seen.at("labels")) CHECK(label.at(1) == true);
  CHECK(seen.at("dark").at(0) != seen.at("dark").at(1));
}

TEST_CASE("a page on paper has all ranks, the bubble and the changes, then it is as before") {
  const auto chromium = browser();
  if (!chromium || !has_engine()) return;
  const Sandbox box;
  make_long_page(box);
  const Variable media("TANDEM_MEDIA", "print");
  const Json seen = browsed(box, *chromium, "live.html", "print.js");
  INFO(seen.dump(1));
  // The first view shows all ranks without scrolling, and some of their communication.
  const Json& first = seen.at("first");
  CHECK(first.at("ranks") == 4);
  CHECK(first.at("below") == Json::array());
  CHECK(first.at("scrolls") == false);
  CHECK(first.at("lanes") > 4 * 3);

  const Json &before = seen.at("before"), &printed = seen.at("printed");
  CHECK(before.at("picture").at("width") > 1000);
  CHECK(!before.at("picture").at("below").empty());
  const Json& picture = printed.at("picture");
  CHECK(picture.at("width") == 715);  // a sheet of A4 less its margins
  CHECK(picture.at("shown") == Json{715, picture.at("height")});
  CHECK(picture.at("height") < 1000);
  CHECK(picture.at("ranks") == 4);
  CHECK(picture.at("below") == Json::array());
  CHECK(picture.at("ends") == true);
  CHECK(picture.at("right") <= 715);
  for (const Json& width : printed.at("widths")) CHECK(std::stoi(width.get<std::string>()) <= 715);
  CHECK(printed.at("theme") == "light");
  CHECK(seen.at("scrolls") == 0);
  REQUIRE(seen.at("bubbles").size() == 4);
  for (const Json& bubble : seen.at("bubbles")) {
    CHECK(bubble.at("text").get<std::string>().starts_with("bubble "));
    CHECK(bubble.at("text").get<std::string>().ends_with(" %"));
    CHECK(bubble.at("inside") == true);
    CHECK(bubble.at("bar") == 1);
  }
  const auto hints = seen.at("hints").get<std::string>();
  for (const char* mouse : {"Drag", "wheel", "click", "Undo"})
    CHECK(hints.find(mouse) == hints.npos);
  CHECK(hints.find("busiest") != hints.npos);
  CHECK(seen.at("changes") == Json::array({"Recompute, train.recompute: full → selective"}));
  CHECK(seen.at("difference") == true);
  CHECK(seen.at("form") == false);
  CHECK(seen.at("after") == before);
}

TEST_CASE("the explorer begins with a pasted model or a shipped scenario, and searches a plan") {
  const auto chromium = browser();
  if (!chromium || !has_engine()) return;
  const Sandbox box;
  const Ran ran = box.tandem("explore -o explore.html");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  CHECK(box.read("explore.html").size() < 3'000'000);
  const Json seen = browsed(box, *chromium, "explore.html", "explore.js");
  CHECK(seen.at("scenarios") > 50);
  CHECK(seen.at("refused").get<std::string>().find("config.json") != std::string::npos);
  CHECK(seen.at("failure").get<std::string>().empty());
  CHECK(seen.at("own").at("gpus") == 64);
  INFO(seen.at("found"));
  REQUIRE(seen.at("taken") == true);
  CHECK(seen.at("better").at("fits") == true);
  CHECK(seen.at("better").at("gpus") == 64);
  CHECK(seen.at("shipped").at("iteration_s") > 0);
}
