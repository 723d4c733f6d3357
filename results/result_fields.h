// The tables of a result's fields, as `simulate --json` prints them.
#pragma once

#include "results/field_table.h"
#include "results/run_result.h"

namespace tandem {

template <>
FieldTable<Spread> make_fields();
template <>
FieldTable<MemoryFix> make_fields();
template <>
FieldTable<RepeatedRun> make_fields();
template <>
FieldTable<RunResult> make_fields();

}  // namespace tandem
