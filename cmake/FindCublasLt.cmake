# cuBLASLt of the CUDA toolkit's major version: the toolkit's own, else a wheel's.
#
#   CublasLt_ROOT           where to look first
#   CublasLt::cublasLt      the library, with its headers
#   CublasLt_LIBRARY_DIR    where it was found
include(${CMAKE_CURRENT_LIST_DIR}/wheels.cmake)
nvidia_wheels(_cublas_wheels)
set(_cublas_places ${CublasLt_ROOT} toolkit)
foreach(wheel IN LISTS _cublas_wheels)
  list(APPEND _cublas_places ${wheel}/cu${CUDAToolkit_VERSION_MAJOR} ${wheel}/cublas)
endforeach()
# Header and library of one place: a toolkit may have the one without the other.
foreach(root IN LISTS _cublas_places)
  if(root STREQUAL toolkit)
    set(_cublas_include ${CUDAToolkit_INCLUDE_DIRS})
    set(_cublas_lib ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib64)
  else()
    set(_cublas_include ${root}/include)
    set(_cublas_lib ${root}/lib ${root}/lib64)
  endif()
  unset(CublasLt_INCLUDE_DIR CACHE)
  unset(CublasLt_LIBRARY CACHE)
  find_path(CublasLt_INCLUDE_DIR cublasLt.h PATHS ${_cublas_include} NO_DEFAULT_PATH)
  find_library(CublasLt_LIBRARY
    NAMES cublasLt libcublasLt.so.${CUDAToolkit_VERSION_MAJOR} NAMES_PER_DIR
    PATHS ${_cublas_lib} NO_DEFAULT_PATH)
  set(CublasLt_VERSION)
  if(CublasLt_INCLUDE_DIR AND EXISTS ${CublasLt_INCLUDE_DIR}/cublas_api.h)
    file(STRINGS ${CublasLt_INCLUDE_DIR}/cublas_api.h _cublas_lines
      REGEX "#define CUBLAS_VER_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" CublasLt_VERSION "${_cublas_lines}")
    string(REPLACE ";" "." CublasLt_VERSION "${CublasLt_VERSION}")
  endif()
  if(NOT CublasLt_VERSION MATCHES "^${CUDAToolkit_VERSION_MAJOR}[.]")
    unset(CublasLt_INCLUDE_DIR CACHE)  # another CUDA's
  endif()
  if(CublasLt_INCLUDE_DIR AND CublasLt_LIBRARY)
    break()
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CublasLt REQUIRED_VARS CublasLt_LIBRARY CublasLt_INCLUDE_DIR
  VERSION_VAR CublasLt_VERSION)
if(CublasLt_FOUND AND NOT TARGET CublasLt::cublasLt)
  add_library(CublasLt::cublasLt SHARED IMPORTED)
  set_target_properties(CublasLt::cublasLt PROPERTIES IMPORTED_LOCATION ${CublasLt_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CublasLt_INCLUDE_DIR})
  get_filename_component(CublasLt_LIBRARY_DIR ${CublasLt_LIBRARY} DIRECTORY)
endif()
mark_as_advanced(CublasLt_INCLUDE_DIR CublasLt_LIBRARY)
