# Runs a command on a terminal of its own: run-in-terminal.py COLUMNS ROWS TYPED COMMAND...
# TYPED is a list in JSON of [pattern, text]: the text is typed a moment after the screen shows the pattern (a regular
# expression) behind what it showed when the text before was typed.
# Prints one line of JSON: the exit code as a shell would see it, all that the screen was sent, and whether the terminal's
# settings were left as they were found.
import fcntl, json, os, pty, re, select, signal, struct, sys, termios, time

columns, rows, typed, command = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
before = termios.tcgetattr(slave)
began = time.monotonic()
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for stream in (0, 1, 2):
        os.dup2(slave, stream)
    os.close(master)
    os.execvp(command[0], command)
screen, status, answered = b"", None, 0
while status is None or select.select([master], [], [], 0.05)[0]:
    if select.select([master], [], [], 0.02)[0]:
        screen += os.read(master, 65536)
    if typed and re.search(typed[0][0], screen[answered:].decode("utf8", "replace"), re.DOTALL):
        time.sleep(0.3)
        answered = len(screen)
        os.write(master, typed.pop(0)[1].encode())
    if status is None:
        pid, found = os.waitpid(child, os.WNOHANG)
        status = found if pid else None
    if time.monotonic() - began > 120:
        os.kill(child, signal.SIGKILL)
code = os.waitstatus_to_exitcode(status)
restored = termios.tcgetattr(slave) == before
print(json.dumps({"code": 128 - code if code < 0 else code, "screen": screen.decode("utf8", "replace"), "settingsRestored": restored}))
