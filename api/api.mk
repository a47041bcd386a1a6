# The files that api/web/web.c takes in are invisible to the compiler's own
# dependencies.
$(B)/obj/api/web/web.o: $(wildcard api/web/*.* api/web/vendor/uplot.*) docs/glossary.md

# The plotting library, pinned in api/web/vendor/package-lock.json: fetched from
# npm again and compared with the checksum there. The build needs neither.
.PHONY: vendor
vendor:
	@api/web/vendor/refresh
