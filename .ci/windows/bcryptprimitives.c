/* bcryptprimitives.dll for Wine 8, which has none: Rust since 1.78, and bun, take their random bytes from there. */
typedef unsigned char byte;

/* RtlGenRandom of advapi32, by its exported name. */
__declspec(dllimport) byte __stdcall SystemFunction036(void *bytes, unsigned long length);

__declspec(dllexport) int __stdcall ProcessPrng(byte *bytes, unsigned long long length) {
  while (length > 0) {
    unsigned long part = length > 65536 ? 65536 : (unsigned long)length;
    if (!SystemFunction036(bytes, part)) return 0;
    bytes += part;
    length -= part;
  }
  return 1;
}

int __stdcall DllMain(void *module, unsigned long reason, void *reserved) { return 1; }
