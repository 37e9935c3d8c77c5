# terraform test: the plan with a provider that is not there. It shows what the module
# asks for; what AWS answers is shown by railctl doctor.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }
  mock_resource "aws_cloudwatch_event_bus" {
    defaults = { arn = "arn:aws:events:eu-west-1:111122223333:event-bus/rail" }
  }
  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:eu-west-1:111122223333:rule/rail/rail" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-west-1:111122223333:rail" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::111122223333:policy/rail" }
  }
}

run "defaults" {
  assert {
    condition     = jsondecode(aws_cloudwatch_event_rule.nudges.event_pattern).source == ["brief.ops"] && contains(jsondecode(aws_cloudwatch_event_rule.nudges.event_pattern)["detail-type"], "canary.asked")
    error_message = "the rule does not match source and names"
  }
  assert {
    condition     = aws_cloudwatch_event_target.queue.input_path == "$.detail" && aws_cloudwatch_event_target.queue.role_arn == null && length(aws_cloudwatch_event_target.queue.dead_letter_config) == 1
    error_message = "the target must hand over the detail, have dead letters of its own, and no role"
  }
  assert {
    condition     = jsondecode(aws_sqs_queue.nudges.redrive_policy).maxReceiveCount >= 5 && aws_sqs_queue.nudges.receive_wait_time_seconds == 20 && aws_sqs_queue.nudges.sqs_managed_sse_enabled
    error_message = "the queue gives up too early, polls short, or is not encrypted"
  }
  assert {
    condition     = aws_sqs_queue.dead_letters.message_retention_seconds == 1209600 && aws_sqs_queue.undelivered.message_retention_seconds == 1209600
    error_message = "dead letters are not kept for 14 days"
  }
  assert {
    condition     = jsondecode(aws_sqs_queue_policy.nudges.policy).Statement[0].Condition.ArnEquals["aws:SourceArn"] == aws_cloudwatch_event_rule.nudges.arn
    error_message = "the queue lets in more than the one rule"
  }
  assert {
    condition     = length(aws_iam_policy.role) == 4 && !anytrue([for p in aws_iam_policy.role : strcontains(p.policy, "kms:") || strcontains(p.policy, "$${")])
    error_message = "policies are missing, speak of a key that is not there, or were not filled in"
  }
}

run "key_of_ones_own" {
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/00000000-0000-0000-0000-000000000000"
  }
  assert {
    condition     = aws_sqs_queue.nudges.kms_master_key_id == var.kms_key_arn && strcontains(aws_iam_policy.role["worker"].policy, "kms:Decrypt") && !strcontains(aws_iam_policy.role["relay"].policy, "kms:")
    error_message = "the key is not used, or a role is given it that does not need it"
  }
}

run "too_few_receives" {
  command = plan
  variables {
    max_receive_count = 3
  }
  expect_failures = [var.max_receive_count]
}

run "short_visibility" {
  command = plan
  variables {
    visibility_seconds = 5
  }
  expect_failures = [var.visibility_seconds]
}
