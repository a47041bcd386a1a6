# The files that cli/config/config_examples.c takes in are invisible to the
# compiler's own dependencies.
$(B)/obj/cli/config/config_examples.o: $(wildcard docs/examples/*.json)
