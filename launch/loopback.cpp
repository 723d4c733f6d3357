// libtandem_loopback.so, preloaded into mpirun when all ranks are on this host. It makes sockets
// that would listen on every interface listen on loopback alone. Open MPI's own settings choose
// which interfaces it announces to others, not where it listens.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

// Replaces the C library's bind().
extern "C" __attribute__((visibility("default"))) int bind(int socket, const sockaddr* address,
                                                           socklen_t size) {
  sockaddr_storage own{};
  const socklen_t taken = std::min<socklen_t>(size, sizeof own);
  std::memcpy(&own, address, taken);
  auto* const four = reinterpret_cast<sockaddr_in*>(&own);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&own);
  if (own.ss_family == AF_INET && four->sin_addr.s_addr == htonl(INADDR_ANY))
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (own.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr))
    six->sin6_addr = IN6ADDR_LOOPBACK_INIT;
  return static_cast<int>(syscall(SYS_bind, socket, &own, taken));
}
