// Runs a fuzz target on the files of folders, for compilers and sanitizers without libFuzzer.
//
// usage: replay FOLDER...
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

namespace {

std::string current;  // file

void tell_file() { std::fprintf(stderr, "while replaying %s\n", current.c_str()); }

void replay(const std::filesystem::path& path) {
    current = path.string();
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int count, char** folders) {
    std::signal(SIGABRT, [](int) { tell_file(); });
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(tell_file);
    int files = 0;
    for (int i = 1; i < count; ++i)
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folders[i]))
            if (entry.is_regular_file()) replay(entry.path()), ++files;
    std::printf("%d files replayed\n", files);
    return files == 0;
}
