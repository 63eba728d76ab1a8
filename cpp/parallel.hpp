// Independent tasks over threads. Tasks must not depend on which thread runs them: the number of
// threads never changes a result.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace minrisk {

struct Workers {
    int threads = 1;
    std::function<void()> poll = [] {};  // called on the caller's thread at times; may throw

    // Calls task(i, worker) for each i below count.
    template <class Task>
    void each(std::size_t count, Task&& task) const {
        std::atomic<std::size_t> next{0};
        std::atomic<bool> stop{false};
        std::exception_ptr error;
        std::mutex error_lock;

        auto work = [&](int worker, bool polls) {
            try {
                for (std::size_t i = next++; !stop && i < count; i = next++) {
                    task(i, worker);
                    if (polls) poll();
                }
                if (polls) poll();
            } catch (...) {
                stop = true;
                std::lock_guard guard(error_lock);
                if (!error) error = std::current_exception();
            }
        };
        const std::size_t wanted = std::min<std::size_t>(threads, count);
        std::vector<std::thread> helpers;
        helpers.reserve(wanted);
        try {
            for (std::size_t w = 1; w < wanted; ++w) helpers.emplace_back(work, int(w), false);
        } catch (const std::system_error&) {
            // the system refuses more threads: the existing ones do the work
        }
        work(0, true);
        for (std::thread& helper : helpers) helper.join();
        if (error) std::rethrow_exception(error);
    }
};

}  // namespace minrisk
