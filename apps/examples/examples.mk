# Programs that are tuned by what docs/protocol.md says alone: no library of ours.

$(B)/least_squares: $(B)/obj/apps/examples/least_squares.o
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_FLAGS) $< $(shell pkg-config --libs libzmq jansson) -lm -o $@

all: $(B)/least_squares
