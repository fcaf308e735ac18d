
# Completes one word. readline splits words at ':' and '='; they are joined before gds-top's options are compared.
_gds_top() {
    local joined="" option="" head="" word
    local -a line=() found=()
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#line[@]} -gt 1 && ( -n $joined || $word =~ ^[:=]+$ ) ]]; then
            line[${#line[@]}-1]+=$word
        else
            line+=("$word")
        fi
        if [[ $word =~ ^[:=]+$ ]]; then joined=1; else joined=""; fi
    done
    local current=${line[${#line[@]}-1]} before=${line[${#line[@]}-2]}
    if [[ $current == --*=* ]]; then
        before=${current%%=*}
        [[ $COMP_WORDBREAKS == *=* ]] || option=$before=
        current=${current#*=}
    fi
    # A list is completed after its last comma.
    if [[ " @lists@ " == *" $before "* && $current == *,* ]]; then
        head=${current%,*},
        current=${current##*,}
    fi
    # The second value of --for is a file.
    if [[ ${#line[@]} -gt 2 && ${line[${#line[@]}-3]} == --for ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=()
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
        return
    fi
    # The values of an argument that a command takes once.
    local once="" given="" files=""
    case ${line[1]} in
@once@
    esac
    for word in "${line[@]:2:${#line[@]}-3}"; do
        [[ " $once " == *" $word "* ]] && given=1
    done
    local -a COMP_WORDS=("${line[@]}")
    local COMP_CWORD=$((${#line[@]} - 1))
    _gds__top "$1" "$current" "$before"
    # readline replaces only the part after the last colon.
    local whole=$head$current kept=""
    [[ $whole == *:* && $COMP_WORDBREAKS == *:* ]] && kept=${whole%:*}:
    for word in "${COMPREPLY[@]}"; do
        # A value that the list has already is not offered again.
        [[ -n $head && ,$head == *",$word,"* ]] && continue
        # Options are offered only after a hyphen.
        [[ $word == -* && $current != -* ]] && continue
        [[ -n $given && " $once " == *" $word "* ]] && continue
        [[ ${line[1]} != make-model && " @shapes@ " == *" $word "* ]] && files=1
        word=$option$head$word
        found+=("${word#"$kept"}")
    done
    COMPREPLY=("${found[@]}")
    # A model can be a file too.
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
    fi
}
