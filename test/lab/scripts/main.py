# A training program for tests: prints its arguments, and does what the file says whose path is in `mode-file`.
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
while (current := mode()) == 'wait':
    time.sleep(0.2)
if current == 'grpc':
    print('E0000 GRPC error: Connection reset by peer', flush=True)
    sys.exit(1)
if current == 'fail':
    print('ValueError: it broke', flush=True)
    sys.exit(1)
print('wandb: Run history:', flush=True)
