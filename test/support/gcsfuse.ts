/** The real gcsfuse: how to build it, and where the build is stored, outside the checkout. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/** The newest version that Go 1.26 builds. */
const version = 'v3.11.3';

/** The path of the build, which includes the version. */
export const gcsfuseBinary = join(homedir(), '.cache', 'jobman', `gcsfuse-${version}`, 'gcsfuse');

/** The argument of `go install`. The program's name is the module's last folder without the version. */
export const gcsfuseModule = `github.com/googlecloudplatform/gcsfuse/v3@${version}`;
