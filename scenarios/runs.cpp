// The runs of a scenario file: the product of its axes. A run's settings are those of --set, else
// of its points, else of the file, else of the files that model.from and the like name.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/xml.h"
#include "scenarios/imported_files.h"
#include "scenarios/limits.h"
#include "scenarios/scenario.h"

namespace tandem {
namespace {

using Points = std::vector<const Point*>;  // one of each axis

// Returns the points of all runs, counted as by an odometer: the last axis changes fastest.
std::vector<Points> points_of_runs(const ScenarioFile& file) {
  std::vector<Points> all = {{}};
  for (const Axis& axis : file.axes) {
    std::vector<Points> longer;
    for (const Points& points : all) {
      for (const Point& point : axis.points) {
        longer.push_back(points);
        longer.back().push_back(&point);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Returns the names of the points, or the file's name if it has no axes.
std::string name_of(const ScenarioFile& file, const Points& points) {
  std::string joined;
  for (const Point* point : points) {
    for (const std::string& name : point->names) joined += (joined.empty() ? "" : ", ") + name;
  }
  return joined.empty() ? printable(std::filesystem::path(file.path).stem().string()) : joined;
}

// Returns the note that `setting` (of --set) replaces the value of a point that names the run.
std::string covered_note(const Axis& axis, const std::string& key, const Setting& setting) {
  return fmt::format("{}: {}={} replaces what the axis {} gives: the run's name says another value",
                     setting.where, key, setting.text(), axis.name);
}

// Whether the key says which model is trained, how, or on which machine.
bool is_of_the_job(const std::string& key) {
  constexpr std::string_view kTables[] = {"model.",    "parallel.", "train.",
                                          "schedule.", "overlap.",  "cluster."};
  return std::ranges::any_of(kTables,
                             [&](std::string_view table) { return key.starts_with(table); });
}

// Drops the file's published figure if settings from elsewhere, as of --set, make another job.
// `in_file`: the run's settings as the file alone gives them.
void drop_published(const ScenarioFile& file, const Settings& in_file, RunSettings* run) {
  const auto published = run->settings.find("published.tflops_per_gpu");
  if (published == run->settings.end() || !published->second.where.starts_with(file.path)) return;
  const bool is_another = std::ranges::any_of(run->settings, [&](const auto& each) {
    const auto before = in_file.find(each.first);
    return is_of_the_job(each.first) &&
           (before == in_file.end() || before->second.text() != each.second.text());
  });
  if (is_another) run->settings.erase(published);
}

// Returns the run at one point of each axis.
RunSettings run_at(const ScenarioFile& file, const Points& points,
                   const std::vector<std::pair<std::string, Setting>>& sets) {
  RunSettings run{name_of(file, points), {}, {}, file.base};
  Settings in_file = file.base;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const auto& [key, setting] : points[i]->settings) {
      run.settings[key] = setting;
      if (setting.where.starts_with(file.path)) in_file[key] = setting;  // else of a list
    }
    for (const std::string& name : points[i]->names) {
      run.axes.push_back(file.axes[i].name);
      run.points.push_back(name);
    }
  }
  for (const auto& [key, setting] : sets) {
    run.settings[key] = setting;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto named = points[i]->settings.find(key);
      if (named != points[i]->settings.end() && named->second.text() != setting.text())
        run.notes.push_back(covered_note(file.axes[i], key, setting));
    }
  }
  drop_published(file, in_file, &run);
  return run;
}

}  // namespace

Result<std::vector<RunSettings>> runs_of(const ScenarioFile& file,
                                         const std::vector<std::pair<std::string, Setting>>& sets,
                                         const std::string& only) {
  RETURN_IF_ERROR(check_runs(file, sets));
  std::vector<RunSettings> runs;
  ImportedFiles imported(file.path);
  const std::vector<Points> all = points_of_runs(file);
  const bool is_name =
      std::ranges::any_of(all, [&](const Points& each) { return name_of(file, each) == only; });
  for (const Points& points : all) {
    const std::string name = name_of(file, points);
    if (is_name ? name != only : name.find(only) == std::string::npos) continue;
    runs.push_back(run_at(file, points, sets));
    RETURN_IF_ERROR(imported.complete(&runs.back()));
  }
  if (runs.empty())
    return Error::at("--only",
                     fmt::format("found no run whose name holds '{}' in {}", only, file.path));
  return runs;
}

}  // namespace tandem
