// NCCL, mocked: a communicator that does not block is in progress for a while after each operation,
// groups are carried out when the outermost ends, and what goes to oneself is copied.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/exec/cuda/mock_cuda.h"

using tandem::MockCuda;
using tandem::MockedComm;

namespace {

MockCuda& mock() { return MockCuda::get(); }

// What a thread's group holds.
struct Grouped {
  std::string call;
  ncclComm_t comm = nullptr;
  const void* give = nullptr;
  void* take = nullptr;
  std::size_t bytes = 0;
};
struct MockedGroup {
  std::vector<Grouped> calls;
  ncclResult_t failure = ncclSuccess;
};
MockedGroup& group() {
  thread_local MockedGroup own;
  return own;
}

void begin(MockedComm* comm) {
  if (comm->blocking) return;
  comm->state = ncclInProgress;
  comm->polls = mock().polls;
}

// All that the group holds; transfers to oneself in pairs.
ncclResult_t carried_out(const std::vector<Grouped>& calls) {
  bool blocks = true, aborts = false;
  std::vector<const Grouped*> gives, takes;
  for (const Grouped& call : calls) {
    if (call.call == "ncclCommAbort") {
      aborts = true;
      continue;
    }
    if (mock().is_live("ncclComm", call.comm)) {
      MockedComm& comm = mock().comm(call.comm);
      if (blocks && &call != calls.data() && comm.blocking != mock().comm(calls[0].comm).blocking)
        mock().fault("ncclGroupEnd: found communicators that block beside others that do not");
      blocks = comm.blocking;
      begin(&comm);
      if (comm.members > 1) continue;
      if (call.give != nullptr) gives.push_back(&call);
      if (call.take != nullptr) takes.push_back(&call);
    }
  }
  for (std::size_t i = 0; i < std::min(gives.size(), takes.size()); ++i) {
    if (!mock().captures) std::memcpy(takes[i]->take, gives[i]->give, gives[i]->bytes);
  }
  if (gives.size() != takes.size()) mock().fault("ncclGroupEnd: found sends to nobody");
  if (!aborts) return blocks ? ncclSuccess : ncclInProgress;
  while (mock().abort_blocks) usleep(1000);
  for (const Grouped& call : calls) {
    if (call.call == "ncclCommAbort") mock().give_back("ncclComm", call.comm);
  }
  return ncclSuccess;
}

// An operation on a communicator: in a group it is noted, else carried out.
ncclResult_t asked(const Grouped& what) {
  if (!mock().is_live("ncclComm", what.comm)) {
    mock().fault(what.call + ": no such communicator");
    return ncclInvalidArgument;
  }
  const MockedComm& comm = mock().comm(what.comm);
  if (comm.state == ncclInProgress && MockCuda::depth() == 0 && what.call != "ncclCommAbort")
    mock().fault(what.call + ": the communicator is still in progress");
  if (MockCuda::depth() == 0) return carried_out({what});
  group().calls.push_back(what);
  return ncclSuccess;
}

ncclResult_t failed() {
  if (MockCuda::depth() > 0) group().failure = ncclSystemError;
  return ncclSystemError;
}

ncclResult_t operation(const char* name, ncclComm_t comm, cudaStream_t stream, const void* give,
                       void* take, std::size_t count, ncclDataType_t type) {
  if (mock().queue(name, stream)) return failed();
  const std::size_t each = type == ncclFloat ? 4 : 2;
  mock().calls.back().what = fmt::format("{} {}", count,
                                         type == ncclFloat  ? "fp32"
                                         : type == ncclHalf ? "fp16"
                                                            : "bf16");
  return asked({name, comm, give, take, count * each});
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t) { return "a mocked failure"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetVersion(int* version) {
  if (mock().call("ncclGetVersion")) return ncclSystemError;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (mock().call("ncclGetUniqueId")) return ncclSystemError;
  std::memset(id, 1, sizeof *id);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int members, ncclUniqueId, int place,
                                    ncclConfig_t* config) {
  if (mock().wait("ncclCommInitRankConfig")) return ncclSystemError;
  *comm = static_cast<ncclComm_t>(mock().make("ncclComm"));
  MockedComm& own = mock().comm(*comm);
  own = {members, place, config->blocking != 0};
  mock().not_blocking += own.blocking ? 0 : 1;
  begin(&own);
  return own.state;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (mock().call("ncclCommGetAsyncError", comm)) return ncclSystemError;
  MockedComm& own = mock().comm(comm);
  if (mock().asked++ >= mock().breaks_at) own.state = ncclRemoteError;
  if (own.state == ncclInProgress && !mock().never_settles && own.polls-- <= 0)
    own.state = ncclSuccess;
  *state = own.state;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (mock().wait("ncclCommFinalize", comm)) return failed();
  return asked({"ncclCommFinalize", comm});
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const bool fails = mock().wait("ncclCommDestroy", comm);
  if (mock().comm(comm).state == ncclInProgress)
    mock().fault("ncclCommDestroy: the communicator is still in progress");
  mock().give_back("ncclComm", comm);
  return fails ? ncclSystemError : ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const bool fails = mock().call("ncclCommAbort", comm);
  const ncclResult_t code = asked({"ncclCommAbort", comm});
  return fails ? ncclSystemError : code;
}

ncclResult_t ncclGroupStart() {
  if (mock().call("ncclGroupStart")) return ncclSystemError;
  ++MockCuda::depth();
  return ncclSuccess;
}
// Fails once the group is closed, as NCCL does.
ncclResult_t ncclGroupEnd() {
  const bool fails = mock().call("ncclGroupEnd");
  if (MockCuda::depth() == 0) {
    mock().fault("ncclGroupEnd: not in a group");
    return ncclInvalidUsage;
  }
  if (--MockCuda::depth() > 0) return fails ? ncclSystemError : ncclSuccess;
  MockedGroup own;
  std::swap(own, group());
  if (own.failure != ncclSuccess) return own.failure;
  const ncclResult_t code = carried_out(own.calls);
  return fails ? ncclSystemError : code;
}

ncclResult_t ncclSend(const void* give, std::size_t count, ncclDataType_t type, int,
                      ncclComm_t comm, cudaStream_t stream) {
  return operation("ncclSend", comm, stream, give, nullptr, count, type);
}
ncclResult_t ncclRecv(void* take, std::size_t count, ncclDataType_t type, int, ncclComm_t comm,
                      cudaStream_t stream) {
  return operation("ncclRecv", comm, stream, nullptr, take, count, type);
}
ncclResult_t ncclAllReduce(const void* give, void* take, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return operation("ncclAllReduce", comm, stream, give, take, count, type);
}
ncclResult_t ncclReduceScatter(const void* give, void* take, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return operation("ncclReduceScatter", comm, stream, give, take, count, type);
}
ncclResult_t ncclAllGather(const void* give, void* take, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return operation("ncclAllGather", comm, stream, give, take, count, type);
}
ncclResult_t ncclAlltoAll(const void* give, void* take, std::size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return operation("ncclAlltoAll", comm, stream, give, take, count, type);
}

}  // extern "C"
