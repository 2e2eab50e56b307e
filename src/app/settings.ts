// Settings: `$JOBMAN_HOME/settings.json` over the defaults. Small on purpose; a key is added with the feature that reads it.

export interface Settings {
  readonly tpu: {
    /** Used when a manifest names no project. */
    readonly project: string | null;
    /** `http://127.0.0.1:PORT` of a server that speaks the Cloud TPU API; null means Google's. */
    readonly endpoint: string | null;
    /** The port that workers are reached on by SSH. */
    readonly sshPort: number;
  };
  readonly local: {
    /** How many local jobs run at once on this machine. */
    readonly slots: number;
  };
  readonly controller: {
    /** Leaves when nothing has been left to watch for this many milliseconds. */
    readonly idleExitMs: number;
  };
}
