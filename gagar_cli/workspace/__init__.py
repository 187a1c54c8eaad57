"""Shared workspaces: every rollout of a group side by side, over one real base tree.

repositories   find the repository that a rollout names, and where its objects are
store          a throw-away bare object store that borrows them
applying       put a patch on a tree the way the usual verifiers do
build          write a group's workspace: task, base, candidates
view           read one: files, text search, diffs, of any candidate
"""
