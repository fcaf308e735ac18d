
# Prints the values that can follow in a list with commas.
function __fish_gds_top_list
    set -l current (commandline -ct | string replace -r -- '^--[a-z-]+=' '')
    set -l head (string match -r -- '.*,' "$current")
    for value in $argv
        contains -- $value (string split , -- "$head")
        or echo "$head$value"
    end
end

# Whether the line has no command: it can have a model.
function __fish_gds_top_no_command
    set -l first (__fish_gds_top_needs_command)
    or not contains -- "$first" @commands@
end
