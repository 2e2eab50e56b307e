# Types into a shell on a terminal of its own, as a person does: typed-input.py STEPS COMMAND...
# STEPS is a list in JSON of [text, pattern]: the text is typed, and then the screen is waited for until it shows the
# pattern (a regular expression) behind what it showed before. Prints one line of JSON: whether every step came to its
# end, and all that the screen was sent.
import json, os, pty, re, select, signal, sys, time, fcntl, struct, termios

steps, command = json.loads(sys.argv[1]), sys.argv[2:]
child, master = pty.fork()
if child == 0:
    os.execvp(command[0], command)
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
screen, done = "", True
for text, pattern in steps:
    before = len(screen)
    os.write(master, text.encode())
    deadline = time.monotonic() + 60
    while not re.search(pattern, screen[before:]) and time.monotonic() < deadline:
        if select.select([master], [], [], 0.05)[0]:
            try:
                screen += os.read(master, 65536).decode("utf8", "replace")
            except OSError:
                break
    if not re.search(pattern, screen[before:]):
        done = False
        break
try:
    os.kill(child, signal.SIGHUP)
    os.kill(child, signal.SIGCONT)
except ProcessLookupError:
    pass
deadline = time.monotonic() + 5
while os.waitpid(child, os.WNOHANG)[0] == 0:
    if time.monotonic() > deadline:
        os.kill(child, signal.SIGKILL)
    if select.select([master], [], [], 0.05)[0]:
        try:
            os.read(master, 65536)
        except OSError:
            time.sleep(0.05)
print(json.dumps({"done": done, "screen": screen}))
