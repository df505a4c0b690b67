#!/bin/sh
# Answers git's questions from the environment of that one git process: the token never is an argument or a file.
# Only for our own Gitea: after a redirect to another host git asks again, and gets nothing.
case "$1" in
*"$CCWEB_GIT_HOST"*) ;;
*) exit 1 ;;
esac
case "$1" in
Username*) printf '%s\n' "$CCWEB_GIT_USER" ;;
Password*) printf '%s\n' "$CCWEB_GIT_TOKEN" ;;
*) exit 1 ;;
esac
