
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
    local -a COMP_WORDS=("${line[@]}")
    local COMP_CWORD=$((${#line[@]} - 1))
    _gds__top "$1" "$current" "$before"
    # readline replaces only the part after the last colon.
    local whole=$head$current kept=""
    [[ $whole == *:* && $COMP_WORDBREAKS == *:* ]] && kept=${whole%:*}:
    for word in "${COMPREPLY[@]}"; do
        # Options are offered only after a hyphen.
        [[ $word == -* && $current != -* ]] && continue
        word=$option$head$word
        found+=("${word#"$kept"}")
    done
    COMPREPLY=("${found[@]}")
}
