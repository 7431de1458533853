// kafkajs: read, work and write in transactions. Its argument is bootstrap.servers.
const { Kafka, logLevel } = require('kafkajs')

const COUNT = 1000

async function main(brokers) {
  const kafka = new Kafka({ clientId: 'squares', brokers, logLevel: logLevel.ERROR })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({
    topic: 'node-numbers',
    messages: Array.from({ length: COUNT }, (_, number) => ({ value: String(number) })),
  })
  await producer.disconnect()

  const writer = kafka.producer({ transactionalId: 'node-squares-1', idempotent: true, maxInFlightRequests: 1 })
  await writer.connect()
  await consumed(kafka.consumer({ groupId: 'node-squares', maxWaitTimeInMs: 500 }), 'node-numbers', async batch => {
    const messages = batch.messages.map(({ value }) => ({ value: String(Number(value) ** 2) }))
    const next = String(BigInt(batch.lastOffset()) + 1n)
    const transaction = await writer.transaction()
    await transaction.send({ topic: 'node-results', messages })
    await transaction.sendOffsets({
      consumerGroupId: 'node-squares',
      topics: [{ topic: batch.topic, partitions: [{ partition: batch.partition, offset: next }] }],
    })
    await transaction.commit()
  })
  await writer.disconnect()

  let sum = 0
  // what belongs to no committed transaction is left out unless readUncommitted is set
  const found = await consumed(kafka.consumer({ groupId: 'node-checker', maxWaitTimeInMs: 500 }), 'node-results', async batch => {
    for (const { value } of batch.messages) sum += Number(value)
  })
  console.log(`kafkajs: ${found} squares, sum ${sum}`)
}

/** Gives batches to `work` until COUNT messages came. */
async function consumed(consumer, topic, work) {
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  let done = 0
  await new Promise((resolve, reject) => {
    // kafkajs itself restarts a consumer after an error that passes, such as a coordinator that is not available yet
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
    consumer
      .run({
        autoCommit: false,
        eachBatch: async ({ batch }) => {
          await work(batch)
          done += batch.messages.length
          if (done >= COUNT) resolve()
        },
      })
      .catch(reject)
  })
  await consumer.disconnect()
  return done
}

main(process.argv[2].split(',')).catch(error => {
  console.error(error)
  process.exit(1)
})
