# The files that api/web.c takes in are invisible to the compiler's own
# dependencies.
$(B)/obj/api/web.o: $(wildcard api/web/*)
