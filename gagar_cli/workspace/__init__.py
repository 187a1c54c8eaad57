"""Shared workspaces: every rollout of a group side by side, over one real base tree.

repositories   find the repository that a rollout names, and where its objects are
store          a throw-away bare object store that borrows them
talking        git processes that stay, and answer one question after another
walking        one file of a tree, without a list of all
applying       put a patch on a tree the way the usual verifiers do
build          write a group's workspace: task, base, candidates
grepping       text search in files and in memory, up to a bound
searching      text search in all trees of a workspace at once
view           read one: files, text search, diffs, of any candidate
"""
