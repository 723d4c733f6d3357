#include "tests/gpu_programs.h"
