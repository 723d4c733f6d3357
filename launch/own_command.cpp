#include "launch/own_command.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launch/standard_output.h"

namespace tandem {

std::vector<std::string> own_command() {
  std::error_code ignored;
  std::vector<std::string> words = {
      std::filesystem::read_symlink("/proc/self/exe", ignored).string()};
  std::ifstream command("/proc/self/cmdline");
  std::string word;
  std::getline(command, word, '\0');
  while (std::getline(command, word, '\0')) words.push_back(word);
  return words;
}

void become(std::vector<std::string> words) {
  give_back_standard_output();
  std::vector<char*> arguments;
  for (std::string& each : words) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
}

}  // namespace tandem
