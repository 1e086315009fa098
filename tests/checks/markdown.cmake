# cmake -D ROOT= -P markdown.cmake
# Paths that a README names in backticks exist, and the README's first block of code is a part of
# the example that shows it.
cmake_minimum_required(VERSION 3.23)
set(example examples/03_cope.cpp)

file(GLOB pages RELATIVE ${ROOT} ${ROOT}/README.md ${ROOT}/*/README.md ${ROOT}/*/*/README.md)
list(FILTER pages EXCLUDE REGEX "^build/")
foreach(page IN LISTS pages)
  file(READ ${ROOT}/${page} text)
  string(REGEX REPLACE "[][;]" " " text "${text}")  # these mean something in CMake's lists
  string(REGEX MATCHALL "`[^`\n]+`" quotes "${text}")
  cmake_path(GET page PARENT_PATH folder)
  foreach(quote IN LISTS quotes)
    # A path of the tree begins with one of its folders or is a file with an ending that we use.
    # A command is judged by its first word, a `*` by what stands before it.
    string(REGEX REPLACE "^`([^` ]+).*" "\\1" path "${quote}")
    string(REGEX REPLACE "[*<{].*" "" path "${path}")
    if(path MATCHES "^(include|tests|bench|examples|\\.ci)/" OR
       path MATCHES "^[A-Za-z0-9_./-]+\\.(hpp|inl|cpp|cmake|json|md|py|svg|txt)$" AND
       NOT path MATCHES "^(build|heed)/")
      if(NOT EXISTS ${ROOT}/${path} AND NOT EXISTS ${ROOT}/${folder}/${path} AND
         NOT EXISTS ${ROOT}/include/heed/${path})
        message(SEND_ERROR "${page} names ${path}, which does not exist")
      endif()
    elseif(path MATCHES "^heed/.+\\.(hpp|inl)$" AND NOT EXISTS ${ROOT}/include/${path})
      message(SEND_ERROR "${page} names ${path}, which does not exist")
    endif()
  endforeach()
endforeach()

if(NOT EXISTS ${ROOT}/README.md)
  message(FATAL_ERROR "there is no README.md")
endif()
file(READ ${ROOT}/README.md text)
string(FIND "${text}" "\n```cpp\n" begin)
if(begin EQUAL -1)
  message(FATAL_ERROR "README.md has no block of C++")
endif()
math(EXPR begin "${begin} + 8")
string(SUBSTRING "${text}" ${begin} -1 text)
string(FIND "${text}" "\n```" end)
string(SUBSTRING "${text}" 0 ${end} block)
file(READ ${ROOT}/${example} code)
string(FIND "${code}" "${block}" place)
if(place EQUAL -1)
  message(SEND_ERROR "README.md: the first block of code is not a part of ${example}:\n${block}")
endif()
