/* A libcuda whose cuInit succeeds, for a control daemon of NVIDIA's that asks for one before it starts (580 and later).
   No GPU, no computation: every function of an export table does nothing. */
enum { ENTRIES = 4096 };

static long nothing(void) { return 0; }
static const void *table[ENTRIES];

int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuGetExportTable(const void **found, const void *id)
{
    (void)id;
    table[0] = (const void *)sizeof table;
    for (int entry = 1; entry < ENTRIES; entry++)
        table[entry] = (const void *)nothing;
    *found = table;
    return 0;
}
