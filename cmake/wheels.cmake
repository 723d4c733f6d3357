# Libraries of NVIDIA's in Python's wheels, as PyTorch brings them: the packages nvidia-nccl-cu13,
# nvidia-cublas and the like lie in the folders nvidia/nccl, nvidia/cublas or nvidia/cu13 of
# site-packages, each with include and lib. Libraries there have no symlink without a number.

# nvidia_wheels(RESULT): the folders `nvidia` of the Python that is first in PATH; none without one.
function(nvidia_wheels result)
  find_program(TANDEM_WHEELS_PYTHON NAMES python3 python)
  mark_as_advanced(TANDEM_WHEELS_PYTHON)
  set(folders)
  if(TANDEM_WHEELS_PYTHON)
    execute_process(
      COMMAND ${TANDEM_WHEELS_PYTHON} -c "import nvidia; print(*nvidia.__path__, sep='\\n')"
      OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REPLACE "\n" ";" folders "${folders}")
  endif()
  set(${result} "${folders}" PARENT_SCOPE)
endfunction()
