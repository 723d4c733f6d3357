// made_program: a Program from a few words of text, for tests.
//
//   made_program(R"(
//     rank 0: F0 1ms, send0 0>1 20us 4kB after F0, all-reduce data 8MB after F0
//     rank 1: recv0 0>1 20us 4kB, F0 1ms after recv0, all-reduce data 8MB after F0
//   )")
//
// A line lists a rank's ops, in the order in which they are issued; behind a comma at its end it
// goes on in the next line. The first word of an op is its kind, as in docs/formats.md, or F, B, I
// or W for a forward, backward, backward-input or backward-weight; the microbatch, if it has one,
// is written behind it. Then, in any order:
//
//   20us            how long it takes: ns, us or ms; by default 0
//   4kB             how many bytes: B, kB, MB or GB; by default 64, of compute 0
//   0>1             the communicator: ranks in ring order; of a transfer the sender first
//   data:0>1>2      the same, of the data group; data alone: of all ranks
//   on NAME         the communicator's lane; by default "0>1", "data"
//   27sm            the SMs that it takes
//   2/3             it is the second of three parts
//   kernel1         its kernel's number in Program::kernels, which a test fills in
//   exchange0       its number among transfers that start together
//   stage2          its stage; by default the line's first rank
//   after F0 recv0  the last ops of these names before it, for which it waits; or their numbers
//
// Ranks that do the same share a body: "ranks 0 1: all-reduce tensor:0>1|2>3". Each of them is in
// one of the communicators between the bars. "rank 0, 80 times: F# 5ms, send# 0>1 after F#" repeats
// the ops and counts # from 0. A second line of the same ranks goes on with their ops. Lanes and
// slots are in the order in which the text first names their communicators, which a line
// "communicators: data, 0>1" may do before there are ops.
#pragma once

#include <string>

#include "schedule/program/program.h"

namespace tandem {

// Throws where a word is none of these. Does not validate: tests also need Programs that are wrong.
Program made_program(const std::string& text, const std::string& name = "by hand");

}  // namespace tandem
