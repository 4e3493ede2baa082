import sys
w=sys.stdout.write
for i in range(0,101,2):
    w('\rdownload [' + '#'*(i//4) + '.'*(25-i//4) + f'] {i:3}%'); sys.stdout.flush()
w('\n')
# cargo's way: a bar that is erased before each line above it, and drawn again
for i in range(1,13):
    w(f'\r\x1b[K\x1b[1m\x1b[32m   Compiling\x1b[0m crate-{i} v0.{i}.0\n')
    w(f'\x1b[1m\x1b[36m    Building\x1b[0m [{"="*i}>{" "*(12-i)}] {i}/12: crate-{i}'); sys.stdout.flush()
w('\r\x1b[K\x1b[1m\x1b[32m    Finished\x1b[0m in 1.23s\n')
# pip's way: two lines redrawn by moving up
w('Collecting things\n  one\n')
for i in range(0,101,10):
    w(f'\x1b[1A\x1b[2K\r  \x1b[38;5;70m{"━"*(i//5)}\x1b[0m {i}/100 MB\n')
# apt's way: a bar on the last row, outside the scrolling region
w('\n\x1b7\x1b[0;23r\x1b8\x1b[1A')
for i in range(1,31):
    w(f'Unpacking package-{i} ...\n')
    w(f'\x1b7\x1b[24;0f\x1b[42m\x1b[30mProgress: [{i*100//30:3}%]\x1b[49m\x1b[39m [{"#"*i}{"."*(30-i)}] \x1b8'); sys.stdout.flush()
w('\x1b7\x1b[0;24r\x1b8\x1b[J\ndone\n')
