# A training program for tests: says what it was given, and goes on as a file says that `mode-file` beside it names.
import json, sys, time

def mode():
    with open('mode-file') as name:
        path = name.read().strip()
    while True:
        with open(path) as file:
            found = file.read().strip()
        # It is empty for a moment while the test writes it.
        if found:
            return found

print('ARGS ' + json.dumps(sys.argv[1:]), flush=True)
while (told := mode()) == 'wait':
    time.sleep(0.2)
if told == 'grpc':
    print('E0000 GRPC error: Connection reset by peer', flush=True)
    sys.exit(1)
if told == 'fail':
    print('ValueError: it broke', flush=True)
    sys.exit(1)
print('wandb: Run history:', flush=True)
