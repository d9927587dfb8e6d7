// The index holds `host.named_address(name)` as one word, and a search finds the words that begin with what is typed.
// With this it finds the names inside of them too: `named_address`.
(() => {
    if (!window.elasticlunr) return;
    const words = elasticlunr.InvertedIndex.prototype;
    const beginningWith = words.expandToken;
    const compounds = new WeakMap();

    // All words of an index, a tree whose edges are letters, that have a name behind a dot, a colon or a bracket.
    function compoundsOf(index) {
        let found = compounds.get(index);
        if (found) return found;
        compounds.set(index, (found = []));
        const open = [["", index.root]];
        while (open.length) {
            const [word, node] = open.pop();
            if (node.df > 0 && /[^a-z0-9_][a-z0-9_]/.test(word)) found.push(word);
            for (const letter in node) {
                if (letter !== "docs" && letter !== "df") open.push([word + letter, node[letter]]);
            }
        }
        return found;
    }

    words.expandToken = function (token, memo, root) {
        const found = beginningWith.call(this, token, memo, root);
        // Its own recursion passes on what it has found.
        if (memo || !token) return found;
        // What is typed comes as a stem: `serve_readi` for `serve_ready`, which within a word is not.
        const names = token.endsWith("i") ? [token, token.slice(0, -1) + "y"] : [token];
        const has = (word, name) => {
            const at = word.indexOf(name);
            return at === 0 ? name !== token : at > 0 && /[^a-z0-9_]/.test(word[at - 1]);
        };
        return found.concat(compoundsOf(this).filter((word) => names.some((name) => has(word, name))));
    };
})();

// Names in tables break between their parts, where a cell is too narrow for them.
for (const code of document.querySelectorAll(".content td code")) {
    if (code.children.length) continue;
    const parts = code.textContent.split(/(?<=::|[.(,_\[])(?=[^\s)\]])/);
    code.replaceChildren(...parts.flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part])));
}
