# A training program for tests: says what it was given, and goes on as a file says that `mode-file` beside it names.
import json, sys, time

def mode():
    with open('mode-file') as name, open(name.read().strip()) as file:
        return file.read().strip()

print('ARGS ' + json.dumps(sys.argv[1:]), flush=True)
while mode() == 'wait':
    time.sleep(0.2)
if mode() == 'grpc':
    print('E0000 GRPC error: Connection reset by peer', flush=True)
    sys.exit(1)
if mode() == 'fail':
    print('ValueError: it broke', flush=True)
    sys.exit(1)
print('wandb: Run history:', flush=True)
