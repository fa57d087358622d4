/**
 * The sample target as a process of its own: `node sample-target-main.ts [PORT]`. Says `{"ready":true,"url":...}` in one
 * line when it listens, and ends with whoever started it.
 */
import { onParentExit } from '../agent/parent-watch.ts';
import { startSampleTarget } from './sample-target.ts';
import { printData } from '../output/terminal.ts';

onParentExit(() => process.exit(0));
const { url } = await startSampleTarget(Number(process.argv[2] ?? 0));
printData(JSON.stringify({ ready: true, url }));
