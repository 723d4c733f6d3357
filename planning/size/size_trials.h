// SizeTrials: the jobs of a sizing on the numbers of nodes that were tried. Each is tuned once, and
// its best plans are played on the ideal engine; the best of them, in answers, on the chosen one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/size/fit_plan.h"
#include "planning/size/size.h"
#include "planning/size/size_steps.h"

namespace tandem {

// A case on a number of nodes, to be tried.
struct SizeTrial {
  std::size_t case_index = 0;
  SizeStep step;

  bool operator==(const SizeTrial&) const = default;
};

class SizeTrials {
 public:
  // REQUIRES: all outlive this.
  SizeTrials(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
             const SizeOptions& options);

  // Tunes the trials that are new, plays their plans on the ideal engine and keeps the best.
  Status run(const std::vector<SizeTrial>& wanted);

  // Plays jobs that were tried on the chosen engine. Returns whether any was not yet played there.
  Result<bool> play_on_engine(const std::vector<const SizedJob*>& wanted);

  bool has(std::size_t case_index, const SizeStep& step) const;
  // Returns the steps that the case was tried on, in order.
  std::vector<SizeStep> steps_of(std::size_t case_index) const;
  // Returns the days that the case takes on each of them if all nodes work; infinity: no plan.
  std::vector<TriedSize> days_of(std::size_t case_index) const;

  // Returns the case on a step that was tried, with its time and cost on the chosen engine. If it
  // takes fewer days on a smaller step, it is on that one, and the other nodes stand by: 768 work
  // of 928. A time on the ideal engine alone is scaled as the last that was played on both.
  SizedJob on(std::size_t case_index, const SizeStep& step) const;

  // Returns the days that the job takes; infinity: no plan, or none that fits.
  static double days(const SizedJob& job);
  // Returns the days that the job takes over the days that it may take; 0: no deadline.
  double share_of_days(const SizedJob& job) const;

 private:
  struct Trial {
    SizedJob played;  // with its best plan, and the time on the engine that it was played on
    SizedJob scaled;  // the same with its time and cost on the chosen engine
  };

  // Returns each trial's plans, not played.
  Result<std::vector<std::vector<SizedJob>>> plans_of(const std::vector<SizeTrial>& trials);
  // Returns the trial that on() has the job from.
  Trial& trial_of(const SizedJob& job);
  void scale(Trial* trial) const;

  const std::vector<SizeCase>& cases_;
  const std::vector<std::string>& among_;
  const SizeOptions& options_;
  std::vector<std::map<SizeStep, Trial>> tried_;  // by case
  std::vector<double> engine_factor_;  // by case: time on the chosen engine over the ideal one's
  int searched_ = 0;                   // trials
};

}  // namespace tandem
