// A small log of Megatron-LM: its arguments, and what it measured.
#pragma once

#include <string>

namespace tandem {

// Text that Megatron-LM writes of an iteration, and of a rank's memory.
inline std::string iteration_line(int number, const std::string& ms, const std::string& tflops) {
  return " [2026-01-01 00:00:00] iteration " + std::to_string(number) +
         "/ 500 | consumed samples: 128 | elapsed time per iteration (ms): " + ms +
         " | throughput per GPU (TFLOP/s/GPU): " + tflops + " | global batch size: 128 |\n";
}

inline std::string memory_line(int rank, const std::string& most) {
  return "[Rank " + std::to_string(rank) +
         "] (after 3 iterations) memory (MB) | allocated: 20000.0 | max allocated: " + most +
         " | reserved: 33000.0\n";
}

// Llama-3.1-8B on 16 GPUs; one argument is unknown.
inline const std::string kSmallLogArguments = R"(using world size: 16
------------------------ arguments ------------------------
  add_bias_linear ................................. False
  attention_backend ............................... AttnBackend.auto
  bf16 ............................................ True
  data_parallel_size .............................. 2
  ffn_hidden_size ................................. 14336
  global_batch_size ............................... 128
  group_query_attention ........................... True
  hidden_size ..................................... 4096
  lr .............................................. 0.0003
  micro_batch_size ................................ 1
  moe_token_dispatcher_type ....................... allgather
  normalization ................................... RMSNorm
  num_attention_heads ............................. 32
  num_layers ...................................... 32
  num_query_groups ................................ 8
  overlap_grad_reduce ............................. True
  overlap_param_gather ............................ True
  padded_vocab_size ............................... None
  pipeline_model_parallel_size .................... 2
  position_embedding_type ......................... rope
  seq_length ...................................... 8192
  sequence_parallel ............................... True
  some_new_argument ............................... 3
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 4
  untie_embeddings_and_output_weights ............. True
  use_distributed_optimizer ....................... True
  virtual_pipeline_model_parallel_size ............ 2
  vocab_size ...................................... 128256
  world_size ...................................... 16
-------------------- end of arguments ---------------------
 > padded vocab (size: 128256) with 256 dummy tokens (new size: 128512)
)";

inline const std::string kSmallLog =
    kSmallLogArguments + iteration_line(1, "9000.0", "50.0") +
    iteration_line(2, "2000.0", "390.0") + iteration_line(3, "1500.0", "395.0") +
    iteration_line(4, "1250.0", "400.0") + iteration_line(5, "1200.0", "402.0") +
    iteration_line(6, "1300.0", "401.0") + memory_line(0, "30720.0") + memory_line(8, "20480.0");

}  // namespace tandem
