/**
 * The sample target as a process of its own: `node sample-target-main.ts [PORT]`. Says `{"ready":true,"url":...}` in one
 * line when it listens, and ends with whoever started it.
 */
import { whenParentIsGone } from './parent-watch.ts';
import { startSampleTarget } from './sample-target.ts';
import { print } from './terminal.ts';

whenParentIsGone(() => process.exit(0));
const { url } = await startSampleTarget(Number(process.argv[2] ?? 0));
print(JSON.stringify({ ready: true, url }));
