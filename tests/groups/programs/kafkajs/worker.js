// A member of a group with kafkajs: BOOTSTRAP GROUP TOPIC.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, groupId, topic] = process.argv.slice(2)
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING })
const consumer = kafka.consumer({ groupId, sessionTimeout: 3000, heartbeatInterval: 500, maxWaitTimeInMs: 100 })
const say = (...words) => process.stdout.write(words.join(' ') + '\n')

async function main () {
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
      for (const message of batch.messages) {
        if (!isRunning() || isStale()) return
        say('read', batch.partition, message.offset)
        resolveOffset(message.offset)
        const next = (BigInt(message.offset) + 1n).toString()
        try {
          await consumer.commitOffsets([{ topic, partition: batch.partition, offset: next }])
        } catch (refused) {
          say('refused', refused.message)
          throw refused
        }
        await heartbeat()
      }
    }
  })
  say('ready')
}

process.on('SIGTERM', () => { consumer.disconnect().then(() => process.exit(0), () => process.exit(1)) })
main().catch((failed) => { say('failed', failed.message); process.exit(1) })
