# The libraries that every build needs, as targets. TANDEM_EXECUTOR takes headers alone: from a
# folder that ./dev carry made, else from the system.
option(TANDEM_EXECUTOR "Only what runs programs: no SimGrid, no tests; libraries are headers" OFF)
set(TANDEM_CARRIED "${PROJECT_SOURCE_DIR}/carried" CACHE PATH "What ./dev carry gathered, if there")

if(NOT TANDEM_EXECUTOR)
  find_package(fmt REQUIRED)
  find_package(Boost 1.74 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(yaml-cpp REQUIRED)
  # Its target has a namespace from 0.8 on.
  set(TANDEM_YAML_LIBRARY yaml-cpp)
  if(TARGET yaml-cpp::yaml-cpp)
    set(TANDEM_YAML_LIBRARY yaml-cpp::yaml-cpp)
  endif()
  find_package(ZLIB REQUIRED)
  find_package(pugixml REQUIRED)
  find_path(FCCP_INCLUDE_DIR libfccp/csv.h REQUIRED)
  find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
  find_library(SIMGRID_LIBRARY simgrid)
  find_path(SIMGRID_INCLUDE_DIR simgrid/s4u.hpp)
  return()
endif()

# All of the carried folder or nothing of it: versions do not mix.
set(carried)
if(IS_DIRECTORY ${TANDEM_CARRIED}/include)
  set(carried PATHS ${TANDEM_CARRIED}/include NO_DEFAULT_PATH)
  message(STATUS "Libraries: headers of ${TANDEM_CARRIED}")
else()
  message(STATUS "Libraries: headers of the system (no ${TANDEM_CARRIED}/include)")
endif()

# header_library(TARGET HEADER): the folder that holds the header.
function(header_library target header)
  string(MAKE_C_IDENTIFIER "TANDEM_${header}_DIR" folder)
  # Looked for anew each time: the carried folder may have come since.
  unset(${folder} CACHE)
  find_path(${folder} ${header} ${carried} REQUIRED)
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} INTERFACE ${${folder}})
  set(found ${${folder}} PARENT_SCOPE)
endfunction()

header_library(fmt::fmt fmt/format.h)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
header_library(Boost::headers boost/graph/adjacency_list.hpp)
header_library(nlohmann_json::nlohmann_json nlohmann/json.hpp)
header_library(CLI11::CLI11 CLI/CLI.hpp)
header_library(tandem_fccp libfccp/csv.h)
set(FCCP_INCLUDE_DIR ${found})
header_library(tandem_toml toml++/toml.h)
set(TOMLPLUSPLUS_INCLUDE_DIR ${found})
