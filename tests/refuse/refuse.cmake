# cmake -D COMPILER= -D COMPILER_ID= -D SOURCE= -D INCLUDES= -P refuse.cmake
# SOURCE must compile as it stands, must not compile with HEED_REFUSE, and then the compiler must
# say the sentence of SOURCE's first line, `// expect: <sentence>`.
cmake_minimum_required(VERSION 3.23)
file(STRINGS ${SOURCE} line LIMIT_COUNT 1)
string(REPLACE "\\;" ";" line "${line}")  # file(STRINGS) escapes what would part a list
if(NOT line MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${SOURCE} does not begin with `// expect: <sentence>`")
endif()
set(sentence "${CMAKE_MATCH_1}")

# Without the lines of source beside a message: they hold the sentence whatever the error is.
# C locale: some compilers would translate their part.
set(ENV{LC_ALL} C)
set(no_caret -fno-diagnostics-show-caret)
if(COMPILER_ID MATCHES "Clang")
  set(no_caret -fno-caret-diagnostics)
endif()
set(command ${COMPILER} -std=c++20 -fsyntax-only ${no_caret} ${SOURCE})
foreach(include IN LISTS INCLUDES)
  list(APPEND command -isystem ${include})
endforeach()

execute_process(COMMAND ${command} RESULT_VARIABLE code ERROR_VARIABLE text)
if(NOT code EQUAL 0)
  message("${text}")  # apart: an error would be wrapped
  message(FATAL_ERROR "${SOURCE} must compile without HEED_REFUSE")
endif()

execute_process(COMMAND ${command} -DHEED_REFUSE RESULT_VARIABLE code ERROR_VARIABLE text)
if(code EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles with HEED_REFUSE, and must not")
endif()
string(FIND "${text}" "${sentence}" place)
if(place EQUAL -1)
  message("${text}")
  message(FATAL_ERROR "${SOURCE} is refused, but not by the sentence\n  ${sentence}")
endif()
