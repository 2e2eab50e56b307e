/** The real gcsfuse: where a build of it is kept, outside of the checkout, and how it is made. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/** The newest that Go 1.26 builds. */
const version = 'v3.11.3';

/** The build, by its version. */
export const gcsfuseBinary = join(homedir(), '.cache', 'jobman', `gcsfuse-${version}`, 'gcsfuse');

/** What `go install` takes; the program is called as the module's last folder without the version. */
export const gcsfuseModule = `github.com/googlecloudplatform/gcsfuse/v3@${version}`;
